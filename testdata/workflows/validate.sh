# validate.sh TEXT fails when TEXT mentions a name that is in broken.txt.
while read -r name; do
  case $1 in
    *"$name"*)
      echo "$name is not valid" >&2
      exit 1
      ;;
  esac
done <broken.txt
