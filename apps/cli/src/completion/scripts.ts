/** Shells with a completion script. */
export const shells = ["bash", "zsh", "fish", "pwsh"] as const;

/**
 * The completion script of each shell. All of them call `keelson complete -- WORDS`, which prints one candidate per line, with its
 * description after a tab.
 */
export const completionScripts: Readonly<Record<(typeof shells)[number], string>> = {
  bash: `# Load it with: source <(keelson completion bash)
_keelson() {
  local IFS=$'\\n'
  COMPREPLY=($(keelson complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f1))
}
complete -o default -F _keelson keelson
`,
  zsh: `#compdef keelson
# Load it with: source <(keelson completion zsh)
_keelson() {
  local line
  local -a candidates
  for line in "\${(@f)$(keelson complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    [[ -n $line ]] && candidates+=("\${\${line%%$'\\t'*}//:/\\\\:}:\${line#*$'\\t'}")
  done
  if (( \${#candidates} )); then _describe keelson candidates; else _files; fi
}
compdef _keelson keelson
`,
  fish: `# Load it with: keelson completion fish | source
complete -c keelson -e
complete -c keelson -a '(keelson complete -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
`,
  pwsh: `# Load it with: keelson completion pwsh | Out-String | Invoke-Expression
Register-ArgumentCompleter -Native -CommandName keelson -ScriptBlock {
  param($word, $ast, $position)
  $words = @($ast.CommandElements | Select-Object -Skip 1 | ForEach-Object { $_.ToString() })
  if ($word -eq '') { $words += '' }
  keelson complete -- @words 2>$null | ForEach-Object {
    $name, $description = $_ -split "\`t", 2
    if (-not $description) { $description = $name }
    [System.Management.Automation.CompletionResult]::new($name, $name, 'ParameterValue', $description)
  }
}
`,
};
