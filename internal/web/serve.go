package web

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"
)

// Limits bound the resources that a client can use, with or without the token.
type Limits struct {
	Header      time.Duration // to read the header of a request
	Read        time.Duration // to read header and body
	Write       time.Duration // to write a response, or one event of a stream
	Idle        time.Duration // between two requests
	HeaderBytes int
	Connections int // at the same time; further ones wait
}

// DefaultLimits returns limits that ordinary use of a browser does not reach.
func DefaultLimits() Limits {
	return Limits{
		Header: 10 * time.Second, Read: 30 * time.Second, Write: time.Minute,
		Idle: 2 * time.Minute, HeaderBytes: 64 << 10, Connections: 128,
	}
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

func (s *Server) http(ctx context.Context) *http.Server {
	l := s.Limits
	return &http.Server{
		Handler: s.Handler(), BaseContext: func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: l.Header, ReadTimeout: l.Read, WriteTimeout: l.Write,
		IdleTimeout: l.Idle, MaxHeaderBytes: l.HeaderBytes,
	}
}
