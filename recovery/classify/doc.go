// Package classify says what a failed command died of: which category of
// failure, whether the environment or the code is to blame, on which line of
// the output that stands, and which handlers of the catalog know cures.
//
// It decides by rules, without a model and without running anything. The order
// is that of the catalog: guards (signs that only a change of the code helps),
// dominators (a full disk makes every tool die of something else), recipes,
// method families, any command, what everything stands on. What a test printed
// is told apart from what the tool itself said, so that a mock that logs
// "no space left on device" does not make a failed assertion a full disk.
//
// Output is read as a stream in constant memory, whatever its size.
package classify
