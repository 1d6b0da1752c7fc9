package agent

import "github.com/superloop/superloop/internal/jsonstream"

// What is read of a line; the order is that of claudeShape.
const (
	claudeType = iota
	claudeSubtype
	claudeSession
	claudeParent
	claudeErrorWord
	claudeDetail
	claudeID
	claudeAnswerer
	claudeMessageUsage
	claudeText
	claudeTool
	claudeInput
	claudeIsError
	claudeStatus
	claudeReason
	claudeResultText
	claudeStructured
	claudeErrors
	claudeStop
	claudeCost
	claudeTurnUsage
	claudeThought
	claudeModels
	claudeSince
	claudeHasSince
	claudeDenials
	claudeQueued
	claudeKeySource
	claudeTask
	claudeTaskStatus
	claudePatched
	claudeTasks
	claudeAttempt
	claudeAttempts
	claudeDelay
	claudeRetryStatus
	claudeLimitInfo
)

var claudeShape = jsonstream.Lazy(
	jsonstream.Want{Path: "type", Max: 64},
	jsonstream.Want{Path: "subtype", Max: 64},
	jsonstream.Want{Path: "session_id", Max: 256},
	jsonstream.Want{Path: "parent_tool_use_id", Max: 256},
	jsonstream.Want{Path: "error", Max: 64},
	jsonstream.Want{Path: "api_error", Max: 64},
	jsonstream.Want{Path: "message.id", Max: 256},
	jsonstream.Want{Path: "message.model", Max: 256},
	jsonstream.Want{Path: "message.usage.*", Max: 64},
	jsonstream.Want{Path: "message.content.*.text", Max: 2 * finalHalf},
	jsonstream.Want{Path: "message.content.*.name", Max: 128},
	jsonstream.Want{Path: "message.content.*.input.*", Max: 512},
	jsonstream.Want{Path: "is_error", Max: 64},
	jsonstream.Want{Path: "api_error_status", Max: 64},
	jsonstream.Want{Path: "terminal_reason", Max: 64},
	jsonstream.Want{Path: "result", Max: 2 * finalHalf},
	jsonstream.Want{Path: "structured_output", Max: 2 * finalHalf},
	jsonstream.Want{Path: "errors.*", Max: maxErrorText},
	jsonstream.Want{Path: "stop_reason", Max: 64},
	jsonstream.Want{Path: "total_cost_usd", Max: 64},
	jsonstream.Want{Path: "usage.*", Max: 64},
	jsonstream.Want{Path: "usage.output_tokens_details.thinking_tokens", Max: 64},
	jsonstream.Want{Path: "modelUsage.*.*", Max: 256},
	jsonstream.Want{Path: "model_usage_since_last_result.*.*", Max: 256},
	jsonstream.Want{Path: "model_usage_since_last_result", Max: 1},
	jsonstream.Want{Path: "permission_denials.*.tool_use_id", Max: 64},
	jsonstream.Want{Path: "queued_turn_count", Max: 64},
	jsonstream.Want{Path: "apiKeySource", Max: 64},
	jsonstream.Want{Path: "task_id", Max: 128},
	jsonstream.Want{Path: "status", Max: 64},
	jsonstream.Want{Path: "patch.status", Max: 64},
	jsonstream.Want{Path: "tasks.*.task_id", Max: 128},
	jsonstream.Want{Path: "attempt", Max: 64},
	jsonstream.Want{Path: "max_retries", Max: 64},
	jsonstream.Want{Path: "retry_delay_ms", Max: 64},
	jsonstream.Want{Path: "error_status", Max: 64},
	jsonstream.Want{Path: "rate_limit_info.*", Max: 128},
)
