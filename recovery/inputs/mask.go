package inputs

import (
	"path"
	"regexp"
	"strings"
)

// mask hides what is secret in the two texts of a change, and bounds them. Where
// only a secret differs the later one says so.
func mask(file, before, now string) (string, string) {
	b, n := maskText(file, before), maskText(file, now)
	if before != now && before != "" && now != "" && b == n {
		n += "(only what is hidden here is another)\n"
	}
	return bound(b), bound(n)
}

func maskText(file, text string) string {
	// The part of an address that logs in.
	text = regexp.MustCompile(`(://)[^/\s"'@]+@`).ReplaceAllString(text, "${1}<secret>@")
	switch path.Base(file) {
	case ".npmrc", ".yarnrc", ".yarnrc.yml", "bunfig.toml", "auth.json", "uv.toml", "poetry.toml", "pip.conf", "gradle.properties", "settings.xml", "config", "credentials", ".env":
	default:
		return text
	}
	secret := regexp.MustCompile(`(?i)(_auth|_authtoken|_password|password|passwd|token|secret|api-?key|username|http-basic|bearer|authorization)("?\s*[:=]\s*|\s+)(.+)`)
	var out strings.Builder
	for line := range strings.Lines(text) {
		end := ""
		if l, ok := strings.CutSuffix(line, "\n"); ok {
			line, end = l, "\n"
		}
		out.WriteString(secret.ReplaceAllString(line, "${1}${2}<secret>") + end)
	}
	return out.String()
}

func bound(s string) string {
	if len(s) > maxShown {
		return strings.ToValidUTF8(s[:maxShown], "") + "\n(cut here)\n"
	}
	return s
}
