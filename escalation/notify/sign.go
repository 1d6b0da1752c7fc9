package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/redact"
)

const (
	secretPrefix = "whsec_"
	minSecret    = 16 // bytes
)

// signingKey reads a secret in the form of Standard Webhooks ("whsec_" and
// base64), or takes any other string of at least 16 bytes as the key itself.
func signingKey(secret redact.Secret) ([]byte, error) {
	key := []byte(secret.Reveal())
	if encoded, ok := strings.CutPrefix(secret.Reveal(), secretPrefix); ok {
		var err error
		if key, err = base64.StdEncoding.DecodeString(encoded); err != nil {
			return nil, errors.New("the webhook secret begins with whsec_, and the rest is not base64")
		}
	}
	if len(key) < minSecret {
		return nil, errors.New("the webhook secret is too short: it needs at least 16 bytes")
	}
	return key, nil
}

// webhookID is the same for every try of a message, so that the receiver can
// tell a repetition. It has no dot, which separates the parts that are signed.
func webhookID(m Message) string {
	sum := sha256.Sum256([]byte(m.ID))
	return "msg_" + hex.EncodeToString(sum[:16])
}

// sign is the webhook-signature of Standard Webhooks 1.0: HMAC-SHA256 over
// "id.timestamp.body", in base64, with its version before it.
func sign(key []byte, id string, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
