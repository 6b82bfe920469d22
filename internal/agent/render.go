package agent

// Render returns the commands of steps as they would run for a, for people to read. Nothing is run. A value that is not
// known before the run stays as it was written.
func Render(a Attempt) ([]string, error) {
	p := new(compiler).plan(&a)
	r := &run{x: new(Executor), a: &a, plan: p}
	s := r.scope()
	commands := make([]string, len(p.steps))
	for i, st := range p.steps {
		if st.broken != nil {
			return nil, st.broken
		}
		inner := s.binding(st)
		inner.env = renderEnv(inner, renderEnv(inner, nil, p.env), st.env)
		commands[i] = st.command.render(inner)
	}
	return commands, nil
}

// renderEnv returns vars as far as they are known, after those in env.
func renderEnv(s *scope, env []string, vars []variable) []string {
	inner := *s
	inner.env = env
	for _, v := range vars {
		inner.env = append(inner.env, v.name+"="+v.value.Render(&inner))
	}
	return inner.env
}
