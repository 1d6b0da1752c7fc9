// Package watch takes a changed .superloop/config.json into a loop that runs.
//
// Watch says when to look: it follows the file through every way in which editors, tools and people replace it, and
// looks now and then where the file system tells nothing. It decides nothing, and a loop that never hears of it still
// looks when an iteration begins.
//
// Reloader looks: it reads the file, does everything that can fail (reading, schema, facts of the file system, trust)
// and then swaps the configuration at once. Whatever is wrong with the file, the configuration that was in force stays
// in force as a whole: there is no state in which a part of a file, an empty configuration or one of defaults is in
// force.
//
// A file that is not whole (not JSON, empty, not there) is most often being written. It is not taken, and not reported,
// before it stayed so for a while. A whole file is taken at once.
package watch
