package ui

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"
)

// Limits bound what whoever connects can hold of the server, with the token or without.
type Limits struct {
	Header      time.Duration // until the header of a request is there
	Read        time.Duration // until its body is there as well
	Write       time.Duration // for an answer, and for each event of a stream, which itself may last
	Idle        time.Duration // between two requests
	HeaderBytes int
	Connections int // at once; further ones wait
}

// DefaultLimits returns limits that no browser and no person meets.
func DefaultLimits() Limits {
	return Limits{
		Header: 10 * time.Second, Read: 30 * time.Second, Write: time.Minute, Idle: 2 * time.Minute, HeaderBytes: 64 << 10, Connections: 128,
	}
}

// Serve answers requests until ctx ends, and with it the streams.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	g, ctx := errgroup.WithContext(ctx)
	server := s.http(ctx)
	g.Go(func() error {
		<-ctx.Done()
		return server.Close()
	})
	g.Go(func() error {
		if err := server.Serve(netutil.LimitListener(listener, s.Limits.Connections)); !errors.Is(err, http.ErrServerClosed) {
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
		ReadHeaderTimeout: l.Header, ReadTimeout: l.Read, WriteTimeout: l.Write, IdleTimeout: l.Idle, MaxHeaderBytes: l.HeaderBytes,
	}
}
