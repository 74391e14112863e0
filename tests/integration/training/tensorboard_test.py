"""Event files for TensorBoard, read by nothing of ours. Usage: tensorboard_test.py BIN"""
import json
import pathlib
import struct
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import processes  # noqa: E402
from trainings import Running  # noqa: E402


def crc32c(data):
    """Bit by bit, after RFC 3720; masked as TensorFlow does."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def fields(message):
    """(number, value) of each field of a protobuf message; groups are not used."""
    def varint(at):
        value = shift = 0
        while True:
            value |= (message[at] & 0x7F) << shift
            shift, at = shift + 7, at + 1
            if message[at - 1] < 0x80:
                return value, at

    at = 0
    while at < len(message):
        key, at = varint(at)
        kind = key & 7
        if kind == 0:
            value, at = varint(at)
        elif kind == 2:
            size, at = varint(at)
            value, at = message[at:at + size], at + size
        else:
            size = {1: 8, 5: 4}[kind]
            value, at = struct.unpack("<d" if kind == 1 else "<f", message[at:at + size])[0], at + size
        yield key >> 3, value


def events(path):
    """[(step, version, {tag: value}, session log)] of an event file, read by nothing of ours and nothing of TensorFlow."""
    data, found = path.read_bytes(), []
    while data:
        length, check = struct.unpack("<QI", data[:12])
        record = data[12:12 + length]
        assert check == crc32c(data[:8]), "the length's checksum"
        assert struct.unpack("<I", data[12 + length:16 + length])[0] == crc32c(record), "the record's"
        data = data[16 + length:]
        event = dict(fields(record))
        scalars = {}
        for number, value in fields(event.get(5, b"")):
            scalar = dict(fields(value))
            scalars[scalar[1].decode()] = scalar[2]
        session = dict(fields(event[7])) if 7 in event else None
        found.append((event.get(2, 0), event.get(3, b"").decode(), scalars, session))
    return found


class Tensorboard(Running):
    def test_event_files_have_the_scalars_of_the_metrics(self):
        config, metrics = self.config(), self.folder / "metrics"
        self.train(config, "--local", "--metrics", metrics, "--tensorboard", self.folder / "board")
        files = list((self.folder / "board").rglob("*"))
        self.assertEqual([file.parent.name for file in files if file.is_file()], ["worker-0"])
        found = events(files[-1])
        self.assertEqual(found[0][1], "brain.Event:2")
        lines = [json.loads(line) for line in metrics.read_text().splitlines()]
        steps = [line for line in lines if line["event"] == "step"]
        written = [(step, scalars) for step, _, scalars, _ in found if "train/loss" in scalars]
        self.assertEqual(len(written), len(steps))
        for (step, scalars), line in zip(written, steps):
            self.assertEqual(step, line["step"])
            for tag, value in (("train/loss", line["loss"]), ("train/accuracy", line["correct"] / 8),
                               ("train/learning_rate", line["learning_rate"]),
                               ("train/loss_scale", line["loss_scale"]),
                               ("train/skipped_steps", line["skipped_steps"]),
                               ("speed/images_per_second", 8 / line["seconds"]),
                               ("speed/exchange_share", line["exchange_seconds"] / line["seconds"])):
                self.assertAlmostEqual(scalars[tag], value, delta=1e-5 * max(1, abs(value)), msg=tag)
        self.assertEqual([session for *_, session in found], [None] * len(found))
        accuracies = [scalars["epoch/test_accuracy"] for _, _, scalars, _ in found
                      if "epoch/test_accuracy" in scalars]
        self.assertEqual(len(accuracies), 3)

    def test_a_resumed_run_tells_tensorboard_to_forget_what_it_trains_again(self):
        config, model, board = self.config(), self.folder / "model", self.folder / "board"
        self.train(config, "--local", "--checkpoint", model, "--max-steps", "10")
        self.train(config, "--local", "--resume", model, "--tensorboard", board, "--max-steps", "12")
        found = events(next(file for file in board.rglob("*") if file.is_file()))
        step, _, _, session = found[1]
        self.assertEqual((step, session), (10, {1: 1}))  # START


if __name__ == "__main__":
    processes.BIN = pathlib.Path(sys.argv[1])
    unittest.main(argv=sys.argv[:1], verbosity=2)
