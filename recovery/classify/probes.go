package classify

// The probes, by the names that handlers use. What Holds says of each stands
// behind it; the capture that it looks at in brackets.
const (
	ProbeDeclared   = "declared"    // [pkg] yes: the project declares the package; Value: installed, missing or broken
	ProbeFirstLine  = "first_line"  // [script] yes: its interpreter is there; no: Value is crlf or the missing interpreter
	ProbeWritable   = "writable"    // [path] yes: we may write it
	ProbeFreeSpace  = "free_space"  // [path] yes: bytes and inodes are free; Value: free bytes
	ProbeLockHolder = "lock_holder" // [lock] yes: a live process holds it, Value its pid; no: Value is stale or gone
	ProbePortOwner  = "port_owner"  // [port] yes: ours, no: another's; Value: pid; unknown: nobody has it, or it is hidden
	ProbeWhich      = "which"       // [tool] yes: it is on PATH, Value where
	ProbeService    = "service"     // [port] yes: something listens there now
	ProbeExists     = "exists"      // [path] yes: there is such a file
	ProbeOOM        = "oom"         // yes: the kernel killed something for memory in our control group
)
