# flaky.sh NAME TIMES [REASON] stands in for a service: it refuses the first TIMES calls, then answers.
calls=$(cat "calls-$1" 2>/dev/null || echo 0)
calls=$((calls + 1))
echo "$calls" >"calls-$1"
if [ "$calls" -le "$2" ]; then
  echo "${3-connection refused} (call $calls)" >&2
  exit 7
fi
echo "$1 answered call $calls"
