package classify

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/text"
)

var (
	uuidText = pattern.Lazy(`(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	timeText = pattern.Lazy(`\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?\b|\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b`)
	urlText  = pattern.Lazy(`(?i)\b[a-z][a-z0-9+.-]*://[^\s"'<>)]+`)
	pathText = pattern.Lazy(`(?:[A-Za-z]:)?(?:\.{0,2}/|~/|\\)(?:[^\s"'():,;<>|*?\\/]+[/\\])*[^\s"'():,;<>|*?\\/]*`)
	hexText  = pattern.Lazy(`(?i)\b(?:0x[0-9a-f]+|[0-9a-f]{7,64})\b`)
	tempText = pattern.Lazy(`(?i)\b(?:tmp|temp|cc|npm|pytest|go-build)[-_.]?[A-Za-z0-9]*\d[A-Za-z0-9_]{2,}\b`)
	number   = pattern.Lazy(`\d+(?:\.\d+)*`)
	spaces   = pattern.Lazy(`\s+`)
)

// maxNormalised bounds what a signature reads of a line.
const maxNormalised = 400

// Normalise reduces a line of output to what is the same in every run: control codes, paths but for their last
// element, URLs, times, UUIDs, hexadecimal and decimal numbers, names of temporary files and ports are taken out. It
// is idempotent.
func Normalise(line string) string {
	s := strings.ToValidUTF8(text.Uncoloured(line), "")
	if len(s) > maxNormalised {
		s = strings.ToValidUTF8(s[:maxNormalised], "")
	}
	s = urlText().ReplaceAllString(s, "<url>")
	s = uuidText().ReplaceAllString(s, "<id>")
	s = timeText().ReplaceAllString(s, "<time>")
	s = pathText().ReplaceAllStringFunc(s, func(as string) string {
		p := strings.ReplaceAll(as, `\`, "/")
		if i := strings.LastIndexByte(p, '/'); i >= 0 && strings.Trim(p, "/.") != "" {
			return "<path>" + p[i+1:]
		}
		return as
	})
	s = tempText().ReplaceAllString(s, "<tmp>")
	s = hexText().ReplaceAllStringFunc(s, func(h string) string {
		if strings.ContainsAny(h, "0123456789") {
			return "<hex>"
		}
		return h
	})
	s = number().ReplaceAllString(s, "<n>")
	return strings.TrimSpace(spaces().ReplaceAllString(s, " "))
}

// Signature names a failure so that the same one in another run has the same name: category, handler, and a short
// hash over the lines, normalised. For a failure of the code give the names of the failed tests and files as parts;
// their order does not matter.
func Signature(category, handler string, parts ...string) string {
	clean := make([]string, 0, len(parts))
	for _, p := range parts {
		if p = Normalise(p); p != "" {
			clean = append(clean, p)
		}
	}
	slices.Sort(clean)
	clean = slices.Compact(clean)
	sum := sha256.Sum256([]byte(category + "\x00" + handler + "\x00" + strings.Join(clean, "\x00")))
	name := category
	if handler != "" {
		name += "/" + handler
	}
	return name + "-" + hex.EncodeToString(sum[:5])
}
