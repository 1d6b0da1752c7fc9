package access

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"regexp"
	"strings"
)

// secret returns n random bytes as text, and the hash of the text.
func secret(prefix string, n int) (plain, hash string) {
	b := make([]byte, n)
	_, _ = rand.Read(b) // it never fails
	plain = prefix + base64.RawURLEncoding.EncodeToString(b)
	return plain, hashOf(plain)
}

func hashOf(plain string) string {
	sum := sha256.Sum256([]byte(plain))
	return hex.EncodeToString(sum[:])
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// Bearer returns the secret of an Authorization header. ok is false for any other header.
func Bearer(header string) (plain string, ok bool) {
	scheme, plain, found := strings.Cut(header, " ")
	if !found || !strings.EqualFold(scheme, "Bearer") || !goodSecret.MatchString(plain) {
		return "", false
	}
	return plain, true
}

var (
	goodSecret = regexp.MustCompile(`^sl[st]_[A-Za-z0-9_-]{43}$`)
	anySecret  = regexp.MustCompile(`sl[st]_[A-Za-z0-9_-]{20,}`)
)

// WithoutSecrets masks what has the form of a secret of this package.
func WithoutSecrets(s string) string { return anySecret.ReplaceAllString(s, "<secret>") }
