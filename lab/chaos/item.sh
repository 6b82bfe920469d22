i=$1
id="$PRODIGY_JOB_ID $PRODIGY_ITEM_ID $PRODIGY_ATTEMPT $$"
exec 9<>SILENT
pause() { if [ $((i % 8)) = 0 ]; then sleep BEAT; else read -rt BEAT -u 9; fi; }
beats=BEATS
n=0
while [ $n -lt $beats ]; do
  echo "$id ${EPOCHREALTIME/[.,]/}000" >>WITNESS/$PRODIGY_ITEM_ID
  pause
  n=$((n+1))
done
echo "NAME $i"
