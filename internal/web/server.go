// Package web shows jobs as pages.
//
// A [Server] shows the list, a running job, its items, and what happened to an item and what it printed. It renders
// HTML pages from the functions in [Data]. A small script replaces the middle of a page with what the server streams
// when the log has grown (live.go). The commands that stop, resume, retry and steer can be started from the pages
// (actions.go). [Report] makes one file of a job, from its log.
//
// Both draw the same charts: a plot collects what is drawn over time on an axis, and a chart is one drawing, made into
// an SVG element by the template. Templates, styles and script are embedded (templates.go).
package web

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"
)

// Handler returns the handler of all routes. Call it once.
func (s *Server) Handler() http.Handler {
	s.form = rand.Text()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /jobs/{job}", s.show(s.job))
	mux.HandleFunc("GET /jobs/{job}/items/{item}", s.show(s.explain))
	mux.HandleFunc("GET /jobs/{job}/items", s.show(s.itemOrItems))
	mux.HandleFunc("GET /{$}", s.handle(func(w http.ResponseWriter, r *http.Request) error {
		p, err := s.list()
		return s.shown(w, r, p, err)
	}))
	mux.HandleFunc("GET /jobs/{job}/find", s.of(s.find))
	mux.HandleFunc("GET /live/jobs", func(w http.ResponseWriter, r *http.Request) {
		s.again(w, r, listEvery, func() bool { return true }, s.list)
	})
	mux.HandleFunc("GET /live/jobs/{job}", s.of(s.liveJob))
	mux.HandleFunc("GET /live/jobs/{job}/items", s.live(s.itemOrItems))
	mux.HandleFunc("GET /jobs/{job}/report", s.of(s.report))
	mux.HandleFunc("GET /jobs/{job}/output", s.of(s.output))
	for _, kind := range []ActionKind{
		Stop, Resume, Retry, Pause, Continue, Drain, Cancel, Scale, Skip, RetryNow, Accept,
	} {
		mux.HandleFunc("POST /jobs/{job}/"+string(kind), s.act(kind))
	}
	mux.HandleFunc("GET /ui.js", asset("text/javascript; charset=utf-8", script))
	mux.HandleFunc("GET /ui.css", asset("text/css; charset=utf-8", []byte(chartsStyle+style)))
	return s.guard(mux)
}

// asset returns a handler that sends an embedded file.
func asset(kind string, data []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(data)
	}
}

// policy is the Content-Security-Policy: pages use their own style, script and stream, and nothing else.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// guard rejects requests without the token, for other hosts or from other sites.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin") // with no-referrer, browsers would send forms with the origin null
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		cookie, err := r.Cookie(cookieName(r.Host))
		switch {
		case !slices.Contains(s.Hosts, r.Host):
			http.Error(w, "host not allowed: "+r.Host, http.StatusMisdirectedRequest)
		case !sameOrigin(r):
			http.Error(w, "cross-site requests are not allowed", http.StatusForbidden)
		case r.Method == http.MethodGet && s.isToken(r.URL.Query().Get("token")):
			s.welcome(w, r)
		case err != nil || !s.isToken(cookie.Value):
			http.Error(w, "missing token: open the URL printed by prodigy ui", http.StatusUnauthorized)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// sameOrigin reports whether the request comes from a page of this server, or from no page.
func sameOrigin(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
		return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate"
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	from, err := url.Parse(origin)
	return err == nil && from.Host == r.Host
}

// isToken reports whether a text is the token of the server.
func (s *Server) isToken(text string) bool { return same(text, s.Token) }

// cookieName returns a cookie name for the port, since all ports of a host share their cookies.
func cookieName(host string) string {
	_, port, err := net.SplitHostPort(host)
	if err != nil {
		port = "80"
	}
	return "prodigy-" + port
}

// welcome stores the token in a cookie and redirects to the address without it.
func (s *Server) welcome(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, &http.Cookie{
		Name: cookieName(r.Host), Value: s.Token, Path: "/", HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
	})
	query := r.URL.Query()
	query.Del("token")
	to := url.URL{Path: "/" + strings.TrimLeft(r.URL.Path, "/"), RawQuery: query.Encode()}
	http.Redirect(w, r, to.String(), http.StatusSeeOther)
}

// Serve serves requests until ctx ends; then the streams end too.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	g, ctx := errgroup.WithContext(ctx)
	server := s.http(ctx)
	g.Go(func() error {
		<-ctx.Done()
		return server.Close()
	})
	g.Go(func() error {
		err := server.Serve(netutil.LimitListener(listener, s.Limits.Connections))
		if !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	return g.Wait()
}

// http returns the server of the standard library, whose requests end with ctx.
func (s *Server) http(ctx context.Context) *http.Server {
	l := s.Limits
	return &http.Server{
		Handler: s.Handler(), BaseContext: func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: l.Header, ReadTimeout: l.Read, WriteTimeout: l.Write,
		IdleTimeout: l.Idle, MaxHeaderBytes: l.HeaderBytes,
	}
}
