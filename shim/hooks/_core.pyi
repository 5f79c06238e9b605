# What meson builds from native and hooks; everything in it is cffi's, and untyped.
from typing import Any

ffi: Any
lib: Any
