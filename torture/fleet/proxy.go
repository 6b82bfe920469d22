//go:build unix

package main

import (
	"io"
	"net"
	"slices"
	"sync"
)

// proxy is the cable between a process and the broker. While it is cut, nothing passes in either direction, or in one of them, and nobody is told; what was on
// the way arrives when it is mended.
type proxy struct {
	listener net.Listener
	to       string

	mu   sync.Mutex
	pass *sync.Cond
	cut  [2]bool // by the way
}

// way is a direction of a cable.
type way int

const (
	toBroker way = iota
	fromBroker
)

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

// join passes on what both ends of a connection say, until one of them ends it.
func (p *proxy) join(from net.Conn) {
	defer func() { _ = from.Close() }()
	p.wait(toBroker)
	to, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	ended := make(chan struct{}, 2)
	for i, ends := range [][2]net.Conn{{from, to}, {to, from}} {
		go func() {
			_, _ = io.Copy(gate{ends[1], p, way(i)}, ends[0])
			ended <- struct{}{}
		}()
	}
	<-ended
	p.wait(toBroker, fromBroker) // the end of a connection is not seen over a cut cable either
}

// gate is a connection that is written to only while the cable is whole.
type gate struct {
	net.Conn
	p   *proxy
	way way
}

func (g gate) Write(data []byte) (int, error) {
	g.p.wait(g.way)
	return g.Conn.Write(data)
}

// wait returns when the cable is whole in some ways.
func (p *proxy) wait(ways ...way) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for slices.ContainsFunc(ways, func(w way) bool { return p.cut[w] }) {
		p.pass.Wait()
	}
}

// set cuts the cable in some ways, or mends it there; without one, in both.
func (p *proxy) set(cut bool, ways ...way) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(ways) == 0 {
		ways = []way{toBroker, fromBroker}
	}
	for _, w := range ways {
		p.cut[w] = cut
	}
	p.pass.Broadcast()
}

// close has no more connections come, and lets those go on that there are.
func (p *proxy) close() {
	p.set(false)
	_ = p.listener.Close()
}
