
# Completes the words of oneflow by these tables: source <(oneflow completion zsh), or this file as _oneflow on fpath.
_oneflow_value() {  # of an entry of _oneflow_values
  local list=${_oneflow_values[$1]-:}
  compset -P '*[,=]'  # the last one of a list, the file of NAME=FILE
  [[ $list != file:* ]] || _files
  [[ $list != folder:* ]] || _files -/
  compadd -- ${=list#*:}
}

_oneflow() {
  local verb=$words[2] flag name key text
  local -a specs
  if (( CURRENT == 2 )); then
    for name text in ${(kv)_oneflow_verbs}; do specs+=("$name:$text"); done
    _describe verb specs
    return
  fi
  for flag in ${=_oneflow_flags[$verb]}; do
    name=${${flag#--}%=} key=$verb.${${flag#--}%=}
    text=${_oneflow_sentences[$key]-$_oneflow_sentences[.$name]}
    specs+=("$flag${text:+[$text]}")
    (( $+_oneflow_values[$key] )) || key=.$name
    [[ $flag != *= ]] || specs[-1]+=":value: _oneflow_value $key"
  done
  shift words
  (( CURRENT-- ))
  _arguments -S $specs "*:word: _oneflow_value $verb."
}

if [[ $funcstack[1] == _oneflow ]]; then _oneflow "$@"; else compdef _oneflow oneflow; fi
