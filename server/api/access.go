package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/superloop/superloop/server/access"
	"github.com/superloop/superloop/server/passkey"
)

// Credential is a session or a token, without its secret.
type Credential struct {
	Name    string         `json:"name"`
	Scopes  []access.Scope `json:"scopes" nullable:"false"`
	By      string         `json:"by" doc:"who made it"`
	Created time.Time      `json:"created_at"`
	Expires time.Time      `json:"expires_at"`
	Used    time.Time      `json:"used_at,omitzero" doc:"when it was used last; missing: never"`
}

// Credentials is a list of them.
type Credentials struct {
	Credentials []Credential `json:"credentials" nullable:"false"`
}

// Secret is a credential with its secret, which is shown once.
type Secret struct {
	Credential
	Token string `json:"token" doc:"for Authorization: Bearer TOKEN; shown once"`
}

// Code is a secret of a person.
type Code struct {
	Code    string    `json:"code"`
	Expires time.Time `json:"expires_at"`
}

// Confirmation is a request over TCP that a person is to confirm.
type Confirmation struct {
	ID      string    `json:"id"`
	What    string    `json:"what" doc:"what is to be done"`
	By      string    `json:"by" doc:"whose request it is"`
	Request string    `json:"request" doc:"the request as it came, cut"`
	Expires time.Time `json:"expires_at"`
	Given   bool      `json:"given,omitempty" doc:"its code was given, and is not used yet"`
}

// Confirmations is what waits for a person.
type Confirmations struct {
	Confirmations []Confirmation `json:"confirmations" nullable:"false"`
}

// Audit is a page of requests that have changed something or were refused, the newest first.
type Audit struct {
	Lines      []access.Line `json:"lines" nullable:"false"`
	NextCursor int64         `json:"next_cursor,omitempty" doc:"missing on the last page"`
}

type named struct {
	Name string `path:"name" maxLength:"100"`
}

type tokenIn struct {
	Body struct {
		Name    string         `json:"name" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"`
		Scopes  []access.Scope `json:"scopes" nullable:"false" enum:"read,control,approve" minItems:"1" maxItems:"3"`
		Seconds int64          `json:"expires_in" minimum:"1" maximum:"31622400" doc:"how long it lasts, in seconds"`
	}
}

type openIn struct {
	Body struct {
		Code string `json:"code" maxLength:"100" doc:"of superloop token code, or of POST /api/v1/codes"`
	}
}

// access registers the routes of tokens, sessions, codes, confirmations, and of the record of requests.
func (a *api) access(h huma.API) {
	for kind, path := range map[access.Kind]string{access.Token: "/api/v1/tokens", access.Session: "/api/v1/sessions"} {
		huma.Get(h, path, func(context.Context, *struct{}) (*body[Credentials], error) {
			if err := a.usable(); err != nil {
				return nil, err
			}
			out := &body[Credentials]{Credentials{Credentials: []Credential{}}}
			for _, c := range a.desk.List(kind) {
				out.Body.Credentials = append(out.Body.Credentials, credentialOf(c))
			}
			return out, nil
		})
		huma.Register(h, huma.Operation{Method: http.MethodDelete, Path: path + "/{name}", DefaultStatus: http.StatusNoContent}, func(_ context.Context, in *named) (*struct{}, error) {
			if err := a.usable(); err != nil {
				return nil, err
			}
			if err := a.desk.Revoke(kind, in.Name); err != nil {
				return nil, ofAccess(err)
			}
			return nil, nil
		})
	}
	huma.Register(h, huma.Operation{Method: http.MethodPost, Path: "/api/v1/tokens", DefaultStatus: http.StatusCreated}, a.createToken)
	huma.Register(h, huma.Operation{Method: http.MethodPost, Path: "/api/v1/codes", DefaultStatus: http.StatusCreated}, func(ctx context.Context, _ *struct{}) (*body[Code], error) {
		by, err := a.operator(ctx)
		if err == nil {
			err = a.usable()
		}
		if err != nil {
			return nil, err
		}
		code, expires, err := a.desk.NewCode(by.User)
		if err != nil {
			return nil, ofAccess(err)
		}
		return &body[Code]{Code{code, expires}}, nil
	})
	huma.Register(h, huma.Operation{Method: http.MethodPost, Path: "/api/v1/sessions", DefaultStatus: http.StatusCreated}, func(_ context.Context, in *openIn) (*body[Secret], error) {
		if err := a.usable(); err != nil {
			return nil, err
		}
		plain, c, err := a.desk.Trade(in.Body.Code)
		if err != nil {
			return nil, ofAccess(err)
		}
		return &body[Secret]{Secret{credentialOf(c), plain}}, nil
	})
	a.confirmations(h)
	huma.Get(h, "/api/v1/audit", func(_ context.Context, in *struct {
		Cursor int64 `query:"cursor" minimum:"0" doc:"the next_cursor of the page before"`
		Limit  int   `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	}) (*body[Audit], error) {
		lines, err := a.log.Page(in.Cursor, in.Limit+1)
		if err != nil {
			return nil, problem(http.StatusConflict, "unusable", "%v", err)
		}
		out := &body[Audit]{Audit{Lines: []access.Line{}}}
		if len(lines) > in.Limit {
			lines = lines[:in.Limit]
			out.Body.NextCursor = lines[in.Limit-1].Seq
		}
		out.Body.Lines = append(out.Body.Lines, lines...)
		return out, nil
	})
}

// usable returns the problem of a daemon that cannot read its credentials.
func (a *api) usable() error {
	if a.damaged != nil {
		return problem(http.StatusServiceUnavailable, "unusable", "%v", a.damaged)
	}
	return nil
}

// confirmations registers the routes of superloop confirm.
func (a *api) confirmations(h huma.API) {
	huma.Get(h, "/api/v1/confirmations", func(context.Context, *struct{}) (*body[Confirmations], error) {
		out := &body[Confirmations]{Confirmations{Confirmations: []Confirmation{}}}
		for _, o := range a.confirms.Pending() {
			out.Body.Confirmations = append(out.Body.Confirmations, Confirmation{o.ID, o.What, o.By, o.Shown, o.Expires, o.Given()})
		}
		return out, nil
	})
	huma.Register(h, huma.Operation{Method: http.MethodPost, Path: "/api/v1/confirmations/{id}", DefaultStatus: http.StatusCreated}, func(_ context.Context, in *struct {
		ID string `path:"id" maxLength:"300" doc:"the challenge of a problem, or the id of what waits to be confirmed"`
	}) (*body[Code], error) {
		code, o, err := a.confirms.Allow(in.ID, access.OnTerminal)
		if err != nil {
			return nil, ofAccess(err)
		}
		return &body[Code]{Code{code, o.Expires}}, nil
	})
}

func credentialOf(c access.Credential) Credential {
	return Credential{c.Name, c.Scopes, c.By, c.Created, c.Expires, c.Used}
}

func (a *api) createToken(ctx context.Context, in *tokenIn) (*body[Secret], error) {
	by, err := a.operator(ctx)
	if err == nil {
		err = a.usable()
	}
	if err != nil {
		return nil, err
	}
	life := time.Duration(in.Body.Seconds) * time.Second
	words := make([]string, len(in.Body.Scopes))
	for i, s := range in.Body.Scopes {
		words[i] = string(s)
	}
	if err := a.stepUp(ctx, "make a token named "+in.Body.Name+" that may "+strings.Join(words, ", ")+", for "+life.String()); err != nil {
		return nil, err
	}
	plain, c, err := a.desk.Create(in.Body.Name, slices.Clone(in.Body.Scopes), life, by.User)
	if err != nil {
		return nil, ofAccess(err)
	}
	return &body[Secret]{Secret{credentialOf(c), plain}}, nil
}

// Passkey is a passkey, without its key.
type Passkey struct {
	Name    string    `json:"name"`
	Host    string    `json:"host" doc:"the name of the page for which it counts"`
	Synced  bool      `json:"synced,omitempty" doc:"it may be copied to other devices of the person"`
	By      string    `json:"by" doc:"who made it"`
	Created time.Time `json:"created_at"`
	Used    time.Time `json:"used_at,omitzero" doc:"when it was used last; missing: never"`
}

// Passkeys is a list of them.
type Passkeys struct {
	Passkeys []Passkey `json:"passkeys"`
}

type addPasskeyIn struct {
	Body struct {
		Name   string          `json:"name" minLength:"1" maxLength:"64"`
		Answer json.RawMessage `json:"answer" doc:"what the browser has made: RegistrationResponseJSON of WebAuthn"`
	}
}

type confirmIn struct {
	ID   string `path:"id" maxLength:"100" doc:"the challenge of the problem"`
	Body struct {
		Answer json.RawMessage `json:"answer" doc:"what the passkey has signed: AuthenticationResponseJSON of WebAuthn"`
	}
}

// partyOf returns the page of a request by its Host, which checkHost has looked at. For an address it has no ID.
func partyOf(host string, local netip.AddrPort) passkey.Party {
	at, _, _ := cutPort(strings.ToLower(host))
	if !slices.Contains(passkey.Parties, at) {
		return passkey.Party{}
	}
	return passkey.Party{ID: at, Port: local.Port()}
}

// ofPasskeys registers the routes of passkeys.
func (a *api) ofPasskeys(h huma.API) {
	huma.Get(h, "/api/v1/passkeys", func(context.Context, *struct{}) (*body[Passkeys], error) {
		if a.lost != nil {
			return nil, problem(http.StatusServiceUnavailable, "unusable", "%v", a.lost)
		}
		out := &body[Passkeys]{Passkeys{Passkeys: []Passkey{}}}
		for _, k := range a.passkeys.List() {
			out.Body.Passkeys = append(out.Body.Passkeys, passkeyOf(k))
		}
		return out, nil
	})
	huma.Register(h, huma.Operation{Method: http.MethodPost, Path: "/api/v1/passkeys/options"}, func(ctx context.Context, _ *struct{}) (*body[passkey.Creation], error) {
		c, err := a.atPage(ctx)
		if err != nil {
			return nil, err
		}
		return &body[passkey.Creation]{a.passkeys.Begin(c.party, c.cred.ID())}, nil
	})
	huma.Register(h, huma.Operation{Method: http.MethodPost, Path: "/api/v1/passkeys", DefaultStatus: http.StatusCreated}, a.addPasskey)
	huma.Register(h, huma.Operation{Method: http.MethodDelete, Path: "/api/v1/passkeys/{name}", DefaultStatus: http.StatusNoContent}, func(_ context.Context, in *named) (*struct{}, error) {
		if a.lost != nil {
			return nil, problem(http.StatusServiceUnavailable, "unusable", "%v", a.lost)
		}
		if err := a.passkeys.Revoke(in.Name); err != nil {
			return nil, ofAccess(err)
		}
		return nil, nil
	})
	huma.Register(h, huma.Operation{Method: http.MethodPost, Path: "/api/v1/confirmations/{id}/passkey", DefaultStatus: http.StatusCreated}, a.confirmByPasskey)
}

func passkeyOf(k passkey.Key) Passkey {
	return Passkey{k.Name, k.Party, k.Eligible, k.By, k.Created, k.Used}
}

// atPage returns the caller, who is a person at a page for which passkeys are made.
func (a *api) atPage(ctx context.Context) (*caller, error) {
	c := callerOf(ctx)
	if a.lost != nil {
		return nil, problem(http.StatusServiceUnavailable, "unusable", "%v", a.lost)
	}
	if c == nil || c.cred.Kind != access.Session || c.party.ID == "" {
		return nil, problem(http.StatusConflict, "no-passkey-here", "a browser makes and uses a passkey for the page at http://superloop.localhost or http://localhost with the daemon's port only, not for an address: superloop ui opens it")
	}
	return c, nil
}

func (a *api) addPasskey(ctx context.Context, in *addPasskeyIn) (*body[Passkey], error) {
	c, err := a.atPage(ctx)
	if err != nil {
		return nil, err
	}
	if !passkey.GoodName(in.Body.Name) {
		return nil, problem(http.StatusUnprocessableEntity, "invalid", "a name has at most 64 letters, digits, dots, underscores and minuses, and begins with a letter or a digit")
	}
	made, err := a.passkeys.Check(c.party, c.cred.ID(), in.Body.Answer)
	if err != nil {
		return nil, ofAccess(err)
	}
	c.shown = c.request.Method + " " + c.request.Path + ` {"name": "` + in.Body.Name + `", ...}` // keys tell a person nothing
	// A stolen session must not let its thief add a passkey, nor may one passkey vouch for another one.
	if err := a.stepUpBy(ctx, "let the passkey "+in.Body.Name+", made at "+c.party.Origin()+", confirm requests in the place of a terminal, until it is revoked", byTerminal); err != nil {
		return nil, err
	}
	key, err := a.passkeys.Add(made, in.Body.Name, c.by().User)
	if err != nil {
		return nil, ofAccess(err)
	}
	return &body[Passkey]{passkeyOf(key)}, nil
}

func (a *api) confirmByPasskey(ctx context.Context, in *confirmIn) (*body[Code], error) {
	c, err := a.atPage(ctx)
	if err != nil {
		return nil, err
	}
	o, err := a.confirms.Take(in.ID, c.cred.ID())
	if err != nil {
		return nil, ofAccess(err)
	}
	key, err := a.passkeys.Confirm(c.party, o.Sign(), in.Body.Answer)
	if err != nil {
		return nil, ofAccess(err)
	}
	c.confirmedBy = "passkey " + key.Name
	code, o, err := a.confirms.Allow(o.ID, c.confirmedBy)
	if err != nil {
		return nil, ofAccess(err)
	}
	return &body[Code]{Code{code, o.Expires}}, nil
}
