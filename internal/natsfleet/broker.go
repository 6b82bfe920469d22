package natsfleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"prodigy/internal/fleet"
)

// Serve runs a broker until ctx ends.
func (Link) Serve(ctx context.Context, o fleet.BrokerOptions) error {
	s, err := startBroker(o)
	if err != nil {
		return err
	}
	if o.Config == "" {
		o.Say("broker ready: prodigy worker --join " + s.ClientURL())
	} else {
		o.Say("broker ready at " + s.ClientURL())
	}
	for {
		select {
		case <-ctx.Done():
			s.Shutdown()
			s.WaitForShutdown()
			return nil
		case <-o.Reload:
			config, err := brokerConfig(o)
			if err == nil {
				err = s.ReloadOptions(config)
			}
			if err != nil {
				o.Say("the configuration stays as it is: " + err.Error())
				continue
			}
			o.Say("the configuration was read again")
		}
	}
}

// brokerConfig returns the configuration of a broker.
func brokerConfig(o fleet.BrokerOptions) (*server.Options, error) {
	config := &server.Options{}
	if o.Config != "" {
		var err error
		if config, err = server.ProcessConfigFile(o.Config); err != nil {
			return nil, fmt.Errorf("%w: %w", fleet.ErrRefused, err)
		}
	}
	if o.Config == "" || o.Listen != "" {
		host, port, err := net.SplitHostPort(o.Listen)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", fleet.ErrRefused, err)
		}
		if config.Port, err = strconv.Atoi(port); err != nil {
			return nil, fmt.Errorf("%w: the port %q is no number", fleet.ErrRefused, port)
		}
		if config.Port == 0 {
			config.Port = server.RANDOM_PORT
		}
		config.Host = host
	}
	if o.Store != "" {
		config.StoreDir = o.Store
	}
	if config.TLSConfig == nil && !loopback(config.Host) && !o.Insecure {
		return nil, fmt.Errorf("%w: whoever reaches %s without TLS has a shell on each worker: listen on 127.0.0.1, give --config with tls (or --insecure, in a network that nobody else uses)", fleet.ErrRefused, o.Listen)
	}
	config.JetStream, config.NoSigs, config.NoLog = true, true, true
	config.ServerName = cmp.Or(config.ServerName, "prodigy-broker")
	return config, nil
}

// startBroker starts a nats-server in this process.
func startBroker(o fleet.BrokerOptions) (*server.Server, error) {
	config, err := brokerConfig(o)
	if err != nil {
		return nil, err
	}
	s, err := server.NewServer(config)
	if err != nil {
		return nil, err
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		s.Shutdown()
		return nil, fmt.Errorf("the broker cannot listen on %s:%d: is another one running there?", config.Host, config.Port)
	}
	if !s.JetStreamEnabled() {
		s.Shutdown()
		return nil, fmt.Errorf("the broker cannot use its store %s", config.StoreDir)
	}
	return s, nil
}

// gather asks all workers something and returns the answers that come within a moment.
func gather(ctx context.Context, a fleet.Address, subject string, data []byte) ([]*nats.Msg, error) {
	h, err := connect(ctx, a, "observer", func(context.Context, *hub) error { return nil }, func() {})
	if err != nil {
		return nil, err
	}
	defer h.nc.Close()
	inbox := h.nc.NewInbox()
	sub, err := h.nc.SubscribeSync(inbox)
	if err == nil {
		err = h.nc.PublishRequest(subject, inbox, data)
	}
	if err != nil {
		return nil, err
	}
	var answers []*nats.Msg
	wait, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	defer context.AfterFunc(h.denied, cancel)()
	for {
		m, err := sub.NextMsgWithContext(wait)
		if h.denied.Err() != nil {
			return nil, context.Cause(h.denied)
		}
		if errors.Is(err, nats.ErrNoResponders) || wait.Err() != nil {
			return answers, nil
		}
		if err != nil {
			return nil, err
		}
		answers = append(answers, m)
	}
}

// Nodes returns the workers that answer.
func (Link) Nodes(ctx context.Context, a fleet.Address) ([]fleet.Node, error) {
	if err := a.May(fleet.ObserverRole); err != nil {
		return nil, err
	}
	answers, err := gather(ctx, a, "prodigy.nodes", nil)
	var nodes []fleet.Node
	for _, m := range answers {
		var n fleet.Node
		if json.Unmarshal(m.Data, &n) == nil && n.Instance != "" {
			nodes = append(nodes, n)
		}
	}
	return nodes, err
}

// Drain asks workers to finish.
func (Link) Drain(ctx context.Context, a fleet.Address, name string) (int, error) {
	if err := a.May(fleet.Coordinator); err != nil {
		return 0, err
	}
	answers, err := gather(ctx, a, "prodigy.drain", []byte(name))
	n := 0
	for _, m := range answers {
		if len(m.Data) > 0 {
			n++
		}
	}
	return n, err
}
