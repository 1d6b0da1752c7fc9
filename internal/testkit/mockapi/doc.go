// Package mockapi is a loopback server that plays the model APIs which agent
// CLIs talk to, faithfully enough that the real CLIs run against it: Anthropic
// Messages, OpenAI Responses and Google Gemini, all on one port of 127.0.0.1.
//
//	POST /v1/messages                                   Anthropic, streaming or not
//	POST /v1/messages/count_tokens
//	POST /v1/responses                                  OpenAI, streaming or not
//	POST /v1beta/models/MODEL:generateContent           Gemini
//	POST /v1beta/models/MODEL:streamGenerateContent     with ?alt=sse, or as an array
//	POST /v1beta/models/MODEL:countTokens
//	GET  /v1/models, GET or HEAD of /                   what CLIs ask before they begin
//
// Gemini answers under /v1 and /v1alpha too. Everything else is 404. A key is
// never looked at, only whether there is one (Call.Authorization).
//
// A Script says what the model does: it sees a Call and gives a Reply in words
// that all APIs share. A Tool that writes a file or runs a command becomes a
// call of a tool that this very request offers, under the names and in the form
// that the CLI offers it; if none fits, the reply is an error 500, and the
// Record says why. Calls is the ground truth: every model request that was
// answered, with exactly the usage that the CLI was told.
//
// # Usage
//
// Usage counts four disjoint kinds. A Reply without usage gets one that follows
// from the request and the reply: four bytes are a token, rounded up. The input
// is the body of the request; what the session's previous request held counts
// as read from the cache, and of a session's first request half is written to
// it (where the API tells of such writes). The output is the text, the thinking
// and the arguments of the tools, at least one token; the thinking is the
// reasoning in it. What an API cannot tell is folded into what it can, and the
// Record shows the result: Gemini and OpenAI's requests without a session know
// no cache, Gemini no writes to one, Anthropic no reasoning.
package mockapi
