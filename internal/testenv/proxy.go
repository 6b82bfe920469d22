package testenv

import (
	"io"
	"net"
	"slices"
	"sync"
)

// Proxy is the cable between a process and the broker. While it is cut, nothing passes in either direction, or in one
// of them, and nobody is told; what was on the way arrives when it is mended.
type Proxy struct {
	listener net.Listener
	to       string

	mu   sync.Mutex
	pass *sync.Cond
	cut  [2]bool // by the way
}

// Way is a direction of a cable.
type Way int

const (
	toBroker Way = iota
	fromBroker
)

// NewProxy lays a cable to an address.
func NewProxy(to string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: l, to: to}
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
func (p *Proxy) join(from net.Conn) {
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
			_, _ = io.Copy(gate{ends[1], p, Way(i)}, ends[0])
			ended <- struct{}{}
		}()
	}
	<-ended
	p.wait(toBroker, fromBroker) // the end of a connection is not seen over a cut cable either
}

// gate is a connection that is written to only while the cable is whole.
type gate struct {
	net.Conn
	p   *Proxy
	way Way
}

func (g gate) Write(data []byte) (int, error) {
	g.p.wait(g.way)
	return g.Conn.Write(data)
}

// wait returns when the cable is whole in some ways.
func (p *Proxy) wait(ways ...Way) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for slices.ContainsFunc(ways, func(w Way) bool { return p.cut[w] }) {
		p.pass.Wait()
	}
}

// Addr is the address at which the cable begins.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Set cuts the cable in some ways, or mends it there; without one, in both.
func (p *Proxy) Set(cut bool, ways ...Way) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(ways) == 0 {
		ways = []Way{toBroker, fromBroker}
	}
	for _, w := range ways {
		p.cut[w] = cut
	}
	p.pass.Broadcast()
}

// Close has no more connections come, and lets those go on that there are.
func (p *Proxy) Close() {
	p.Set(false)
	_ = p.listener.Close()
}
