//! Jobs that are set aside, and files that cannot be used: nothing is lost, and the others go on.
