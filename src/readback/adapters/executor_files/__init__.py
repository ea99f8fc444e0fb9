"""Acting on a folder: whole files, and workspaces of many changes, verified before they are moved into place."""

from readback.adapters.executor_files.confined import NEW_FILE_MODE, STAMP_ATTRIBUTE
from readback.adapters.executor_files.executor import DIRTY_MARKER, FileExecutor
from readback.adapters.executor_files.workspace import FileWorkspace

__all__ = ["DIRTY_MARKER", "NEW_FILE_MODE", "STAMP_ATTRIBUTE", "FileExecutor", "FileWorkspace"]
