package temporal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"fmt"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/proto"

	"github.com/superloop/superloop/loop"
)

// plain is the SDK's JSON without its escapes for web pages, so that the fields of an event keep their bytes.
type plain struct {
	*converter.JSONPayloadConverter
}

func (c plain) ToPayload(v any) (*commonpb.Payload, error) {
	data, err := loop.Encode(v)
	if err != nil {
		return nil, fmt.Errorf("encoding a payload: %w", err)
	}
	return &commonpb.Payload{Metadata: map[string][]byte{converter.MetadataEncoding: []byte(c.Encoding())}, Data: data}, nil
}

// Keys are the keys of payloads by their ids. What is written is encrypted with the key Write. The others read what was
// written before that key.
type Keys struct {
	Write string            `json:"write"`
	All   map[string][]byte `json:"all"` // 32 bytes each
}

// Converter returns the converter of all payloads of a fleet. Without keys the server can read the payloads.
func Converter(keys Keys) (converter.DataConverter, error) {
	c := converter.NewCompositeDataConverter(converter.NewNilPayloadConverter(), converter.NewByteSlicePayloadConverter(),
		converter.NewProtoJSONPayloadConverter(), plain{converter.NewJSONPayloadConverter()})
	if keys.Write == "" {
		return c, nil
	}
	sealed := &codec{write: keys.Write, all: map[string]cipher.AEAD{}}
	for id, key := range keys.All {
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, fmt.Errorf("the key %q of payloads: %w", id, err)
		}
		if sealed.all[id], err = cipher.NewGCMWithRandomNonce(block); err != nil {
			return nil, err
		}
	}
	if sealed.all[keys.Write] == nil {
		return nil, fmt.Errorf("the key %q of payloads, with which is to be written, is not among the keys", keys.Write)
	}
	return converter.NewCodecDataConverter(c, sealed), nil
}

// FailureConverter returns the converter of failures: it keeps their texts in payloads, which the converter encrypts.
func FailureConverter(c converter.DataConverter) converter.FailureConverter {
	return temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{DataConverter: c, EncodeCommonAttributes: true})
}

const (
	sealedEncoding = "binary/aes-gcm" // the encoding of a payload that codec has sealed
	keyName        = "superloop-key"
)

// codec encrypts payloads, so that prompts, commands and paths are no plain text on the server.
type codec struct {
	write string
	all   map[string]cipher.AEAD
}

func (c *codec) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		data, err := proto.Marshal(p)
		if err != nil {
			return nil, fmt.Errorf("encrypting a payload: %w", err)
		}
		out[i] = &commonpb.Payload{Metadata: map[string][]byte{converter.MetadataEncoding: []byte(sealedEncoding), keyName: []byte(c.write)}, Data: c.all[c.write].Seal(nil, nil, data, []byte(c.write))}
	}
	return out, nil
}

func (c *codec) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		if string(p.Metadata[converter.MetadataEncoding]) != sealedEncoding {
			return nil, fmt.Errorf("a payload is not encrypted, and this fleet encrypts all")
		}
		id := string(p.Metadata[keyName])
		aead := c.all[id]
		if aead == nil {
			return nil, fmt.Errorf("a payload is encrypted with the key %q, which this machine does not have", id)
		}
		data, err := aead.Open(nil, nil, p.Data, []byte(id))
		if err == nil {
			out[i] = &commonpb.Payload{}
			err = proto.Unmarshal(data, out[i])
		}
		if err != nil {
			return nil, fmt.Errorf("decrypting a payload with the key %q: %w", id, err)
		}
	}
	return out, nil
}

// NewKey returns a random key for payloads.
func NewKey() []byte {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // crypto/rand does not fail
	return key
}
