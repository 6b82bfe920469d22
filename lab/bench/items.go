//go:build unix

package bench

import (
	"fmt"
	"os/exec"
)

// step is what all items do where nothing else is said.
const step = "true ${item}"

var shTrue = []string{"sh", "-c", `true "$0"`}

// manySlots holds the contests of 8 slots: every peer, the three durabilities, and a step that is one program.
func manySlots(s *stage) error {
	const slots = 8
	n := s.scale(10_000, 1000)
	all, missing := s.invited(n, slots)
	all = append(all, xargs(n, slots, shTrue...))
	for _, durability := range []string{"batch", "none", "strict"} {
		c, err := s.job("prodigy "+durability, step, n, slots, "--durability", durability)
		if err != nil {
			return err
		}
		all = append(all, c)
	}
	took, err := s.compete(all...)
	if err != nil {
		return err
	}
	p, x := took["prodigy batch"], took["xargs"]
	s.add(
		row{what: "`sh -c true`, 8 slots, throughput against xargs", must: 1.05, aim: 1.15, values: ratios(p, x, rate), absolute: both(p, x, rate, "/s")},
		row{what: "CPU time an item against xargs", must: 1.1, aim: 1, atMost: true, values: ratios(p, x, cpu), absolute: both(p, x, millis, " ms")},
		row{what: "durability batch against none", must: 0.95, aim: 0.98, values: ratios(p, took["prodigy none"], rate)},
		row{what: "durability strict against xargs", must: 0.85, aim: 0.95, values: ratios(took["prodigy strict"], x, rate)},
	)
	for _, r := range peers {
		if their := took[r.name]; their != nil {
			s.add(row{what: "throughput against " + r.name, must: r.must, aim: r.aim, values: ratios(p, their, rate), absolute: both(p, their, rate, "/s")})
		}
	}
	s.add(missing...)
	return s.oneProgram(n, slots)
}

// oneProgram holds a step that is one plain external command, as people write it.
func (s *stage) oneProgram(n, slots int) error {
	p, err := s.job("prodigy", s.noop+" ${item}", n, slots)
	if err != nil {
		return err
	}
	took, err := s.compete(p, xargs(n, slots, "sh", "-c", s.noop+` "$0"`), bareXargs(n, slots, s.noop))
	if err != nil {
		return err
	}
	ours, theirs := took["prodigy"], took["xargs"]
	s.add(
		row{what: "one program an item, throughput against xargs with sh", must: 1.4, aim: 1.6, values: ratios(ours, theirs, rate), absolute: both(ours, theirs, rate, "/s")},
		row{what: "one program an item, throughput against xargs without sh", values: ratios(ours, took["xargs without sh"], rate), absolute: both(ours, took["xargs without sh"], rate, "/s")},
	)
	return nil
}

func bareXargs(n, slots int, program string) contestant {
	c := xargs(n, slots, program)
	c.name = "xargs without sh"
	return c
}

// fewAndMany holds the contests of 2 and of 64 slots.
func fewAndMany(s *stage) error {
	for _, g := range []struct {
		slots     int
		must, aim float64
	}{{2, 0.9, 1.05}, {64, 1.05, 1.15}} {
		n := s.scale(5000, 1000)
		p, err := s.job("prodigy", step, n, g.slots)
		if err != nil {
			return err
		}
		took, err := s.compete(p, xargs(n, g.slots, shTrue...))
		if err != nil {
			return err
		}
		ours, theirs := took["prodigy"], took["xargs"]
		s.add(row{what: fmt.Sprintf("%d slots, throughput against xargs", g.slots), must: g.must, aim: g.aim, values: ratios(ours, theirs, rate), absolute: both(ours, theirs, rate, "/s")})
	}
	return nil
}

func millis(u usage) float64 { return 1000 * u.cpu }

// both shows the medians of the two.
func both(a, b []usage, of func(usage) float64, unit string) string {
	show := func(runs []usage) string {
		v := median(values(runs, of))
		if v >= 100 {
			return fmt.Sprintf("%.0f%s", v, unit)
		}
		return fmt.Sprintf("%.3g%s", v, unit)
	}
	return show(a) + ", " + show(b)
}

// startUp measures what prodigy takes to do next to nothing.
func startUp(s *stage) error {
	file, err := s.write("small.yml", "name: small\nmap:\n  input: [1]\n  agent_template:\n    - shell: "+step+"\n")
	if err != nil {
		return err
	}
	many := func(name string, args ...string) contestant {
		return contestant{name: name, times: s.scale(50, 20), command: func() *exec.Cmd { return command(s.prodigy, args...) }}
	}
	took, err := s.compete(many("version", "version"), many("validate", "validate", file))
	if err != nil {
		return err
	}
	for _, name := range []string{"version", "validate"} {
		each := values(took[name], func(u usage) float64 { return 1000 * wall(u) })
		s.add(row{what: "`prodigy " + name + "`", unit: "ms", must: 10, aim: 6, atMost: true, values: each})
	}
	return nil
}
