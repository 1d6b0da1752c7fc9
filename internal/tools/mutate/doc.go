// Command mutate shows whether the unit tests of a package notice a fault. It puts
// faults into the package, one at a time, and runs the package's own tests with
// each. A fault that no test notices survives: it is printed with its place and
// with the line before and after.
//
//	go run ./internal/tools/mutate [-n 100] [-seed 1] [-p 2] [-timeout 60s] [-run REGEXP] [-min 85] PACKAGE...
//
// The faults (mutants), in files that are neither tests nor generated:
//
//   - a condition of an if, of a for or of a switch without a tag is negated, or is
//     taken as true or as false. A condition that asks for an error and is taken as
//     false is an error that nobody looks at. A for is not made endless: its time
//     limit would be all that notices;
//   - <, <=, >, >=, == and != become their neighbor, && and || each other;
//   - a statement is deleted: a call, an assignment to what exists already, a defer,
//     a go, a send;
//   - a number grows by one, a text gets one character more, a boolean literal is
//     flipped;
//   - a return gives nil instead of its error, or zero values instead of its values.
//
// No fault is put into what says nothing about the tests when it survives:
//
//   - calls of loggers (zap, log, log/slog), with their arguments: a log line is for
//     people and changes nothing that is decided;
//   - panics, with their arguments: they say that the program is wrong, and no
//     test can get there;
//   - methods String and GoString: they serve messages and debuggers;
//   - the text of errors.New and fmt.Errorf: a test that holds every word of it
//     would only copy it. That an error is returned at all is tested.
//
// A mutant that the type checker refuses is not counted, and another one of the
// same file is drawn instead. Each file gets as many mutants as its share of all
// candidates; the same seed draws the same mutants from the same sources.
//
// A mutant is a program that nobody has read: it may kill, write and delete
// whatever it can reach, with the rights of whoever runs it. So each one is only
// compiled outside. It runs as a child of PID 1 in PID, mount and IPC namespaces of its own,
// where all file systems are read-only but for a temporary directory that is gone
// with it, and its memory is bounded. Where such namespaces cannot be had,
// mutate refuses to run. Two ways stay open to a mutant: the network, and the device
// files, if it runs as root. A test that writes outside of os.TempDir() does not work here.
//
// The exit status is 0 if at least -min percent were noticed, 1 if fewer were, and 2 if
// the question could not be answered.
package main
