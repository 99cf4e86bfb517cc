"""Turn errors of the operating system, of a GPU, of a user's data set and of a user's network into ours.

The original error is the cause of ours. The command line shows its traceback below our message.
"""

from __future__ import annotations

import errno
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from .errors import DataError, ModelError, StoreError, TrainingError, UnspurError

OURS = str(Path(__file__).parent)
GPU_ERROR = "CUDA error:"  # how torch begins the messages of a GPU's errors
GPU_FAILED = (
    "Finished stages and the last checkpoint are kept. Run the same command again to continue. Another "
    "program on the GPU, its driver or its hardware can be the cause; if it fails at the same step again, "
    "please report the lines below."
)
GPU_ADVICE = {
    "device-side assert": "An index is probably out of range, in the network or in its labels. Run with "
    "--device cpu to see where.",
    "no kernel image": "This build of torch has no code for the GPU. Install another one, or run with "
    "--device cpu.",
}
ADVICE = {
    errno.ENOENT: "Was it removed while it was in use?",
    errno.EEXIST: "A file is where a folder should be.",
    errno.ENOTDIR: "A file is where a folder should be.",
    errno.EISDIR: "A folder is where a file should be.",
    errno.EACCES: "Choose a folder that you can write to.",
    errno.EPERM: "Choose a folder that you can write to.",
    errno.EROFS: "Choose a folder that you can write to.",
    errno.EMFILE: "Allow more open files (ulimit -n).",
}


@contextmanager
def explain_faults(what: str, kind: type[UnspurError] = DataError) -> Iterator[None]:
    """Turn any exception of a user's code into an error of class `kind`; `what` says what failed."""
    try:
        yield
    except UnspurError:
        raise
    except Exception as error:
        explained = kind(f"{what}: {_line(error)}.")
        explained.traceback = _format(error, _users_part(error.__traceback__))
        raise explained from error


@contextmanager
def explain_system() -> Iterator[None]:
    """Turn errors of the operating system, a GPU or a network into ours; any other one is a bug in unspur."""
    try:
        yield
    except UnspurError:
        raise
    except Exception as error:
        fault = _memory(error) or _gpu(error) or _system(error) or _network(error)
        if fault is None:
            raise
        raise fault from error


def _memory(error: Exception) -> UnspurError | None:
    """Explain that the memory of the computer or of a GPU is full."""
    text = str(error).lower()
    full = "out of memory" in text or "can't allocate memory" in text or "std::bad_alloc" in text
    if not isinstance(error, MemoryError) and not (full and isinstance(error, RuntimeError)):
        return None  # torch.cuda.OutOfMemoryError is a RuntimeError with such a text
    return TrainingError(
        f"there is not enough memory ({_line(error)}). Lower batch, data.size or the network's width; "
        "finished stages and the last checkpoint are kept."
    )


def _gpu(error: Exception) -> UnspurError | None:
    """Explain that a GPU has failed. It reports this at any later call, also within a network."""
    if not isinstance(error, RuntimeError) or not str(error).startswith(GPU_ERROR):
        return None
    advice = next((text for part, text in GPU_ADVICE.items() if part in str(error)), GPU_FAILED)
    explained = TrainingError(f"the GPU failed ({_line(error)}). {advice}")
    explained.traceback = _format(error, error.__traceback__)
    return explained


def _system(error: Exception) -> UnspurError | None:
    """Explain an error of the operating system."""
    if not isinstance(error, OSError):
        return None
    where = " and ".join(str(name) for name in (error.filename, error.filename2) if name)
    text = f"{where}: {error.strerror}" if where and error.strerror else str(error)
    advice = ADVICE.get(error.errno or 0, "Check the disk, or choose another folder.")
    return StoreError(f"{text}. {advice} Stages that are stored are not trained again.")


def _network(error: Exception) -> UnspurError | None:
    """Explain an error that a network, or its output, has caused."""
    if not any(
        frame.filename == _module_file() for frame in traceback.extract_tb(error.__traceback__)
    ):
        return None
    explained = ModelError(
        f"the network failed, or its outputs could not be used: {_line(error)}. It must return one logit per "
        "class for every image, each time it is called."
    )
    trace = error.__traceback__
    explained.traceback = _format(error, _users_part(trace) or trace)
    return explained


def _format(error: Exception, trace: TracebackType | None) -> str:
    """Return a traceback as text; '' if it has no frames."""
    if trace is None:
        return ""
    return "".join(traceback.format_exception(type(error), error, trace)).rstrip()


def _users_part(trace: TracebackType | None) -> TracebackType | None:
    """Return the part of a traceback after our last frame, without the frames of torch at its beginning."""
    part = after = trace
    while part is not None:
        if _file(part).startswith(OURS):
            after = part.tb_next
        part = part.tb_next
    while after is not None and _file(after).startswith(_torch_folder()):
        after = after.tb_next
    return after


def _module_file() -> str:
    """Return the file in which torch calls the `forward` of a module."""
    from torch import nn

    return nn.Module.__call__.__code__.co_filename


def _torch_folder() -> str:
    import torch

    return str(Path(torch.__file__).parent)


def _file(trace: TracebackType) -> str:
    return trace.tb_frame.f_code.co_filename


def _line(error: Exception) -> str:
    """Return the class of an error and the first line of its message."""
    first = next(iter(str(error).strip().splitlines()), "").rstrip(".")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
