"""What the package raises."""


class Error(RuntimeError):
    """What libphub said, and who caused it. Every error of a client is final for its job."""


class ForkedError(Error):
    """A client belongs to the process that made it: a forked child has neither its threads nor its place in the job."""


class LibraryError(Error):
    """libphub.so is not there, or is not what this package was written for."""
