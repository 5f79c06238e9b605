# What meson builds from hooks/native; everything in it is cffi's, and untyped.
from typing import Any

ffi: Any
lib: Any
