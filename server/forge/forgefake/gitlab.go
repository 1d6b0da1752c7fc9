package forgefake

import "net/http"

func (s *Server) gitlab(mux *http.ServeMux) {}
