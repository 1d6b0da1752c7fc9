// Package link is the connection between a machine of a fleet and its gateway. The machine opens it, as TLS 1.3, and the roles turn:
// the gateway sends requests over it, and the machine answers. Each end proves by its own key who it is, and the
// machine by the secret of the fleet that it is a member. No certificate authority is needed.
package link

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"
)

// protocol is told in the handshake, so that neither end speaks with something else.
const protocol = "superloop-fleet/1"

// The times of a connection. The gateway asks for a sign of life after PingAfter of silence, and counts the machine as away
// when none has come after PingWait. The machine counts the gateway as away after silence.
const (
	PingAfter = 10 * time.Second
	PingWait  = 10 * time.Second
	silence   = 45 * time.Second
	patience  = 10 * time.Second // for a handshake
)

// MachineID is the id of the machine with a key. No other key that can be found has the same.
func MachineID(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:8])
}

// Member is what a machine needs to reach its gateway.
type Member struct {
	Key      ed25519.PrivateKey // the machine's own
	Secret   []byte             // of the fleet
	Gateways [][]byte           // the public keys of the gateways
}

// proof shows who knows the secret that the owner of a key does so, and tells nobody else about it.
func proof(secret []byte, key ed25519.PublicKey) (string, error) {
	derived, err := hkdf.Key(sha256.New, secret, nil, "superloop fleet member", sha256.Size)
	if err != nil {
		return "", err
	}
	mac := hmac.New(sha256.New, derived)
	mac.Write(key)
	return hex.EncodeToString(mac.Sum(nil)), nil
}

// certificate is the form in which TLS carries a key. It says nothing that is believed but the key, and name.
func certificate(key ed25519.PrivateKey, name string) (tls.Certificate, error) {
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// keyOf returns the key that the other end has proved, and the name beside it.
func keyOf(s tls.ConnectionState) (ed25519.PublicKey, string, error) {
	if s.NegotiatedProtocol != protocol {
		return nil, "", errors.New("the other end speaks another protocol: it is no part of a fleet, or of another version")
	}
	if len(s.PeerCertificates) != 1 {
		return nil, "", errors.New("the other end shows no key")
	}
	key, ok := s.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
	if !ok {
		return nil, "", errors.New("the key of the other end is of another kind")
	}
	return key, s.PeerCertificates[0].Subject.CommonName, nil
}

// config is what both ends share. Who the other end is is checked by its key and not by a certificate authority, so the
// library's own check is off, and VerifyConnection stands in its place.
func config(own tls.Certificate, verify func(tls.ConnectionState) error) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{own}, NextProtos: []string{protocol}, ClientAuth: tls.RequireAnyClientCert,
		InsecureSkipVerify: true, SessionTicketsDisabled: true, VerifyConnection: verify}
}

// forMachine is the configuration of the machine's end.
func (m Member) forMachine() (*tls.Config, error) {
	name, err := proof(m.Secret, m.Key.Public().(ed25519.PublicKey))
	if err != nil {
		return nil, err
	}
	own, err := certificate(m.Key, name)
	if err != nil {
		return nil, err
	}
	return config(own, func(s tls.ConnectionState) error {
		key, _, err := keyOf(s)
		if err == nil && !slices.ContainsFunc(m.Gateways, func(g []byte) bool { return key.Equal(ed25519.PublicKey(g)) }) {
			err = errors.New("whoever answers there is no gateway of this fleet")
		}
		return err
	}), nil
}

// ForGateway is the configuration of the gateway's end, which lets in whoever knows one of the secrets.
func ForGateway(key ed25519.PrivateKey, secrets [][]byte) (*tls.Config, error) {
	own, err := certificate(key, "gateway")
	if err != nil {
		return nil, err
	}
	return config(own, func(s tls.ConnectionState) error {
		key, name, err := keyOf(s)
		if err != nil {
			return err
		}
		for _, secret := range secrets {
			if want, err := proof(secret, key); err == nil && hmac.Equal([]byte(want), []byte(name)) {
				return nil
			}
		}
		return errors.New("it is no machine of this fleet")
	}), nil
}

// Peer returns the id of the machine at the other end of a connection of ForGateway, whose handshake is done.
func Peer(s tls.ConnectionState) (string, error) {
	key, _, err := keyOf(s)
	if err != nil {
		return "", err
	}
	return MachineID(key), nil
}

// Address takes HOST:PORT, or https://HOST:PORT.
func Address(s string) (string, error) {
	at := strings.TrimSuffix(strings.TrimPrefix(s, "https://"), "/")
	if i := strings.LastIndexByte(at, ':'); i <= 0 || i == len(at)-1 || strings.ContainsAny(at, "/?#@ ") {
		return "", fmt.Errorf("%q is no address of a gateway: it is written as HOST:PORT", s)
	}
	return at, nil
}
