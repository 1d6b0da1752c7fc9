// Package schemas holds the file formats of superloop: one JSON Schema (draft 2020-12) per format, embedded, and the
// strict reader that every file passes before superloop believes a word of it.
//
// Read is the strict reader. It refuses what makes two readers of one file see two different things: duplicate keys,
// keys that differ from a key of the schema only in case, empty keys, lone surrogates, invalid UTF-8, NUL, data after
// the end, numbers that do not fit, nesting deeper than MaxDepth, files over the caps of their kind (bytes, values).
// Then it applies the schema, and gives every problem at once, in the order of the file, each with its place in the
// source.
//
// Words of a schema that superloop gives a meaning of its own:
//
//	deprecated   a known key that superloop does not act on (Document.Ignored)
//	writeOnly    a secret: its value is never printed (Document.Secret)
//	x-allowed    the phrase for humans where a pattern or a count would be shown
//	$comment     beside deprecated: what to do instead
//
// Nothing is compiled before it is needed, and each schema only once in the life of a process.
package schemas
