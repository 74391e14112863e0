"""A network namespace whose loopback interface is slow for some ports.

Functions for tests that are programs: `enter` begins the program again within a namespace.
"""
import os
import shutil
import subprocess
import sys

INSIDE = "PHUB_TEST_IN_NAMESPACE"


def enter(mtu=65536):
    """Begins again within a namespace, or ends (77: skipped) where that cannot be. Returns there."""
    if INSIDE in os.environ:
        return
    within = ["unshare", "--net", "sh", "-c", f"ip link set lo mtu {mtu} up && tc qdisc add dev lo root "
              "handle 1: htb default 10 && exec \"$@\"", "sh"]
    able = shutil.which("unshare") and shutil.which("tc") and shutil.which("ip")
    if not able or subprocess.run([*within, "true"], capture_output=True).returncode != 0:
        print("SKIPPED: no network namespace with tc can be made here (CAP_NET_ADMIN, CAP_SYS_ADMIN)")
        sys.exit(77)
    os.environ[INSIDE] = "yes"
    os.execvp(within[0], [*within, sys.executable, "-B", *sys.argv])


def tc(words):
    subprocess.run(["tc", *words.split()], check=True)


def slow_down(rate, matches):
    """What matches, such as "sport 7077", shares the rate from now on."""
    tc("class add dev lo parent 1: classid 1:10 htb rate 10gbit quantum 60000")
    tc(f"class add dev lo parent 1: classid 1:20 htb rate {rate} burst 64k")
    for match in matches:
        tc(f"filter add dev lo parent 1: protocol ip u32 match ip {match} 0xffff flowid 1:20")


def speed_up():
    """Nothing is slow any more."""
    tc("filter del dev lo parent 1:")
    for of in ("1:20", "1:10"):
        tc(f"class del dev lo classid {of}")


def change_rate(rate):
    """Changes the rate of what slow_down has slowed down."""
    tc(f"class change dev lo parent 1: classid 1:20 htb rate {rate} burst 64k quantum 60000")
