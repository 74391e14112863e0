"""What the package raises."""


class Error(RuntimeError):
    """What libphub said, and who caused it. An error of push or wait that comes of a server, a worker or the time is
    final for the job. What a call refuses leaves the job as it is, and so does an error of add_keys or snapshot."""


class ForkedError(Error):
    """A client belongs to the process that made it: a forked child has neither its threads nor its place in the job."""


class LibraryError(Error):
    """libphub.so is not there, or is not what this package was written for."""
