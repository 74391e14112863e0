"""PHub from Python: a worker pushes gradients to servers and pulls what they make of them.

    with phub.Client(phub.Options(servers="127.0.0.1:7077", workers=2, rule="mean", job="mine")) as client:
        client.register_keys([phub.Key("w", 1000)])
        mean = phub.numpy.push_pull(client, "w", gradient)

`phub.numpy` is for arrays, `phub.torch` for PyTorch, and the program `phubrun` starts what is to run
together. What goes wrong is an Error with the library's message.
"""
from phub._environment import rank, world_size
from phub._library import LibraryError, library_version
from phub.client import Client, Key
from phub.errors import Error, ForkedError
from phub.options import Options

__all__ = ["Client", "Error", "ForkedError", "Key", "LibraryError", "Options", "library_version", "rank", "world_size"]
