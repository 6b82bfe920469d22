//go:build unix

package main

import (
	"fmt"
	"io"
	"net"
	"sync"
)

// proxy is the cable between a process and the broker. While it is cut, nothing passes in either direction, and nobody is told; what was on the way
// arrives when it is mended.
type proxy struct {
	listener net.Listener
	to       string

	mu   sync.Mutex
	pass *sync.Cond
	cut  bool
}

func newProxy(to string) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: l, to: to}
	p.pass = sync.NewCond(&p.mu)
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return // it is closed
			}
			go p.join(from)
		}
	}()
	return p, nil
}

func (p *proxy) url() string { return fmt.Sprintf("nats://%s", p.listener.Addr()) }

// join passes on what both ends of a connection say, until one of them ends it.
func (p *proxy) join(from net.Conn) {
	defer func() { _ = from.Close() }()
	p.wait()
	to, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	ended := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
		go func() {
			_, _ = io.Copy(gate{way[1], p}, way[0])
			ended <- struct{}{}
		}()
	}
	<-ended
	p.wait() // the end of a connection is not seen over a cut cable either
}

// gate is a connection that is written to only while the cable is whole.
type gate struct {
	net.Conn
	p *proxy
}

func (g gate) Write(data []byte) (int, error) {
	g.p.wait()
	return g.Conn.Write(data)
}

// wait returns when the cable is whole.
func (p *proxy) wait() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.cut {
		p.pass.Wait()
	}
}

func (p *proxy) set(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	p.pass.Broadcast()
}

// close has no more connections come, and lets those go on that there are.
func (p *proxy) close() {
	p.set(false)
	_ = p.listener.Close()
}
