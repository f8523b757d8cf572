"""
Where the files stand that are not Python: ``schema/`` and ``etc/``.

They are folders of the project's top level; the wheel carries them inside the package.
The hook imports this module, so it imports nothing but ``os``.
"""

import os

_HERE = os.path.dirname(os.path.abspath(__file__))


def resource(folder: str, *names: str) -> str:
    """The path of a file below ``schema`` or ``etc``, in an installed package or in a checkout."""
    inside = os.path.join(_HERE, folder)
    return os.path.join(inside if os.path.isdir(inside) else os.path.join(os.path.dirname(_HERE), folder), *names)
