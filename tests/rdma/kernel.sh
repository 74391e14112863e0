# Sourced by in_vm: the guest's kernel and the modules to load, taken once from Debian's package into
# the cache. Nothing is installed on the host, and root is not needed.

# In this order, each after what it needs. netem is for tests that lose packets.
guest_modules=(virtio_pci virtio_console 9pnet_virtio 9p overlay veth sch_netem crc32_generic rdma_rxe)

# little_endian FILE OFFSET BYTES: an unsigned number out of a binary file.
little_endian() { od -An -t "u$3" -j "$2" -N "$3" "$1" | tr -d ' '; }

# download_kernel FOLDER: puts Debian's kernel package there.
download_kernel() {
  local package
  package=$(apt-cache depends linux-image-amd64 2>/dev/null |
            sed -n 's/.*Depends: *\(linux-image-[0-9].*\)/\1/p' | head -n 1)
  [ -n "$package" ] || skip "apt knows no package linux-image-amd64; try apt-get update"
  echo "in_vm: fetching $package (70 MB, once)" >&2
  (cd "$1" && timeout 240 apt-get download -q "$package") >"$1/log" 2>&1 ||
    skip "cannot fetch $package; try apt-get update ($(tail -n 1 "$1/log"))"
}

# unpack_kernel IMAGE FILE: the plain ELF kernel inside a boot image. QEMU starts it directly, which
# spares an emulated processor the unpacking. The offsets are those of the x86 boot protocol:
# setup_sects at 0x1f1, payload_offset at 0x248.
unpack_kernel() {
  local payload=$((($(little_endian "$1" $((0x1f1)) 1) + 1) * 512 + $(little_endian "$1" $((0x248)) 4)))
  xz -dc --single-stream < <(tail -c +$((payload + 1)) "$1") >"$2"
}

# pack_modules TREE VERSION FILE: an initramfs with busybox and the modules; the list `modules/order`
# says in which order they load. in_vm adds /init and the command.
pack_modules() {
  local root=$1/initramfs name verb path
  mkdir -p "$root"/{bin,modules,proc,sys,dev,lower,upper,host}
  cp "$(command -v busybox)" "$root/bin/busybox"
  depmod -b "$1" "$2" || return
  for name in "${guest_modules[@]}"; do
    modprobe -d "$1" -S "$2" --show-depends "$name" || return
  done >"$1/list"
  # What is built into the kernel is listed as "builtin NAME".
  while read -r verb path _; do
    [ "$verb" = insmod ] && [ ! -e "$root/modules/${path##*/}" ] || continue
    cp "$path" "$root/modules/" && echo "${path##*/}" >>"$root/modules/order"
  done <"$1/list"
  (cd "$root" && find . | busybox cpio -o -H newc 2>/dev/null) >"$3"
}

# prepare_kernel: sets `kernel` to the folder of `vmlinux` and `initramfs`, which it fills at need.
# The folder is named after this file, so that a change here makes a new one.
prepare_kernel() {
  local cache fresh version
  [ -n "${XDG_CACHE_HOME:-}${HOME:-}" ] || skip "neither XDG_CACHE_HOME nor HOME is set"
  cache=${XDG_CACHE_HOME:-$HOME/.cache}/phub-rdma-vm
  kernel=$cache/$(sha256sum <"$here/kernel.sh" | head -c 12)
  [ ! -e "$kernel" ] || return 0
  mkdir -p "$cache" 2>/dev/null && exec 9>"$cache/lock" || skip "cannot write to $cache"
  flock -w 300 9 || skip "another run is filling $cache"
  if [ ! -e "$kernel" ]; then
    find "$cache" -mindepth 1 -maxdepth 1 ! -name lock -exec rm -rf {} +
    fresh=$cache/fresh
    mkdir "$fresh" "$fresh/files"
    download_kernel "$fresh"
    dpkg-deb --fsys-tarfile "$fresh"/*.deb |
      tar -x -C "$fresh/files" --wildcards './boot/vmlinuz-*' './lib/modules/*' ||
      skip "cannot unpack the kernel's package"
    version=$(basename "$fresh"/files/lib/modules/*)
    unpack_kernel "$fresh/files/boot/vmlinuz-$version" "$fresh/vmlinux" ||
      skip "cannot unpack the kernel $version"
    pack_modules "$fresh/files" "$version" "$fresh/initramfs" ||
      skip "the kernel $version lacks a module"
    rm -rf "$fresh"/{files,log,*.deb}
    mv "$fresh" "$kernel"
  fi
  exec 9>&-
}
