// Package webtest plays the page of the daemon in a real browser: a real daemon, real loops, and agents that are scripts. It
// is a module of its own, so that superloop does not depend on what drives a browser. Without a chromium nothing is
// played, and the tests say so.
//
// SUPERLOOP_WEBTEST=all plays every screen in both themes and all widths, and every hostile text; else a sample.
// SUPERLOOP_WEBTEST_PICTURES=DIR keeps a picture of each screen. SUPERLOOP_WEBTEST_LOAD=10m measures the page under load
// (TestLoad). -update writes the pictures of the docs.
package webtest
