
# Completes the words of oneflow by these tables: source <(oneflow completion bash)
_oneflow() {
  local word=${COMP_LINE:0:COMP_POINT} verb=${COMP_WORDS[1]-} flag value head="" key list breaks
  word=${word##*[[:blank:]]}
  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W "${!_oneflow_verbs[*]} --help --version" -- "$word")
    return
  fi
  case $word in
    --*=*) flag=${word%%=*} value=${word#*=} head=$flag= ;;
    -*)
      mapfile -t COMPREPLY < <(compgen -W "${_oneflow_flags[$verb]-}" -- "$word")
      [[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace
      return
      ;;
    *) # of the flag before it, if that takes a value
      flag=${COMP_WORDS[COMP_CWORD - 1]} value=$word
      [[ $flag == --* ]] || flag=
      ;;
  esac
  flag=${flag#--} flag=${flag//-/_}
  [[ " ${_oneflow_flags[$verb]-} " == *" --$flag= "* || $word == --*=* ]] || flag=
  key=$verb.$flag
  [[ -v _oneflow_values[$key] ]] || key=.$flag
  list=${_oneflow_values[$key]-:}
  head+=${value%"${value##*[,=]}"} value=${value##*[,=]} # the last one of a list, the file of NAME=FILE
  mapfile -t COMPREPLY < <(
    compgen -P "$head" -W "${list#*:}" -- "$value"
    [[ $list != file:* ]] || compgen -P "$head" -f -- "$value"
    [[ $list != folder:* ]] || compgen -P "$head" -d -- "$value"
  )
  [[ $list == :* ]] || compopt -o filenames
  # Bash replaces what stands behind the last of its word breaks.
  breaks=${COMP_WORDBREAKS//[^=:]/}
  [[ -z $breaks ]] || COMPREPLY=("${COMPREPLY[@]#"${word%"${word##*["$breaks"]}"}"}")
}
complete -F _oneflow oneflow
