"""The checks that plugin authors run; `zoo.testing` is their public page."""
