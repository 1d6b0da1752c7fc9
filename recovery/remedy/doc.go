// Package remedy works out what fixes a failure on the system at hand. Resolve takes a classified failure, the catalog
// and a Profile of the system, collects the options of every handler that matched, of the category's chain and of the
// tester's proposal, and gives each its availability, its steps and its command text. ByItself and Gate then say
// whether one of them may run without an operator.
//
// Nothing here runs anything, and nothing here can grant anything: what may run is what recovery.Decide allows, less
// what ByItself refuses whatever the policy lists. Steps are lists of arguments and meet no shell; what a tool printed
// gets into them only if it looks like a name.
package remedy
