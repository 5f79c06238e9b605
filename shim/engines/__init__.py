"""Engines: containerd, CRI-O, docker and podman learn of the runtime `shim`, and forget it again.

One module an engine, each with the same functions (`model.Engine`): where its configuration lies, what that says, which
keys register a runtime, what is wrong with it. They describe edits as keys and values and write nothing. The rest is
common to all:

    toml_edit, json_edit, template_edit  change single keys of a text and leave every other byte
    toml_scan, json_scan  where the parts of such a text stand
    values        values by the path of their keys
    editing       edits -> new texts, and back again
    launcher      whether the launcher may be run as root; the link to the low-level runtime
    undo_records  what was done, with the bytes that were there before
    transaction   files written together, and given back
    configure     the recipe, and its way back
    verify        findings, from the files and from the daemon that runs
    manifest      RuntimeClass and Pod
"""
