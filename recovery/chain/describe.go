package chain
func Describe(c Chain, width int) string { return "" }
func Response(c Chain) ([]byte, error) { return nil, nil }
