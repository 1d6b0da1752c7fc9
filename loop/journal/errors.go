package journal

import (
	"errors"
	"fmt"
)

// ErrStop, returned by the function that Read or Follow calls, ends the reading without an error.
var ErrStop = errors.New("stop reading")

// CorruptError says where a journal is not what was written. The file is never changed because of it.
type CorruptError struct {
	Path string
	// Line counts from 1; 0 if it is not known because the reader came from the end of the file.
	Line   int64
	Offset int64 // of the line's first byte
	Seq    int64 // what the line says of itself, 0 if it does not say
	Why    string
	// Torn: all before the line is good, and the line is the file's torn end. In a journal that is being written it may
	// just not be complete yet; Open repairs it.
	Torn bool
}

func (e *CorruptError) Error() string {
	where := fmt.Sprintf("byte %d", e.Offset)
	if e.Line > 0 {
		where = fmt.Sprintf("line %d (%s)", e.Line, where)
	}
	if e.Torn {
		return fmt.Sprintf("%s: %s is torn: %s", e.Path, where, e.Why)
	}
	return fmt.Sprintf("%s: %s is broken: %s; the file is kept as it is, see: superloop events --verify", e.Path, where, e.Why)
}

// TamperedError says that a journal does not hold the line that its head, kept outside the repository, names: lines
// were cut off its end, or the file was written anew. The file is never changed because of it.
type TamperedError struct {
	Path   string
	Head   string // the file that names the line
	Seq    int64  // of that line
	Offset int64  // where the line has to begin
	Why    string
}

func (e *TamperedError) Error() string {
	return fmt.Sprintf("%s was changed by something else than superloop: event %d, which was on the disk at byte %d, %s; "+
		"the file is kept as it is, see: superloop events --verify; to begin anew, move it away and remove %s",
		e.Path, e.Seq, e.Offset, e.Why, e.Head)
}
