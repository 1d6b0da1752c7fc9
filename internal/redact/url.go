package redact

import "strings"

// URL keeps the scheme and the host of a URL, and its port. User info, path, query and fragment are dropped. What is not a
// URL with a host becomes Mark, because then nobody can say which part of it is harmless; "" stays "".
func URL(raw string) string {
	if raw == "" {
		return ""
	}
	i := strings.Index(raw, "://")
	if i <= 0 || schemeStart(raw, i) != 0 {
		return Mark
	}
	return raw[:i+3] + host(raw[i+3:])
}

// Text applies URL to every URL in a text and leaves the rest as it is.
func Text(s string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(s, "://")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		b.WriteString("://")
		end := strings.IndexFunc(rest, func(r rune) bool { return r <= ' ' || strings.ContainsRune("\"'`<>", r) })
		if end < 0 {
			end = len(rest)
		}
		url := rest[:end]
		if schemeStart(s, len(before)) < len(before) {
			url = host(url)
		}
		b.WriteString(url)
		s = rest[end:]
	}
}

// schemeStart finds where the scheme that ends before i begins; i if there is none.
func schemeStart(s string, i int) int {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	behind := strings.TrimRight(s[:i], letters+"0123456789+.-")
	return i - len(strings.TrimLeft(s[len(behind):i], "0123456789+.-"))
}

// host cuts a URL without its scheme down to host and port.
func host(rest string) string {
	if i := strings.IndexAny(rest, `/?#\`); i >= 0 {
		rest = rest[:i]
	}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		rest = rest[i+1:]
	}
	name, port := rest, ""
	if i := strings.LastIndexByte(rest, ':'); i >= 0 && !strings.HasSuffix(rest, "]") {
		name, port = rest[:i], rest[i+1:]
	}
	if name == "" {
		return Mark
	}
	// A port that is no number is a password whose "@" was cut off with the path.
	if strings.Trim(port, "0123456789") != "" || strings.Contains(name, ":") && !strings.HasPrefix(name, "[") {
		return Mark
	}
	return rest
}
