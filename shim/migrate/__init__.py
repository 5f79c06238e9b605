"""From a vendor's container toolkit to shim, on a machine that has the toolkit; and back.

toolkits        what the toolkits leave on a machine, one table
needed_sources  sources of requests that the vendor's runtime takes, and the lines for shim's configuration
registrations   the engines that have the vendor's runtime, and shim beside it or in its place
recipe          the plan, and carrying it out
journal         what was done, written before each step
undo            all of it undone
"""
