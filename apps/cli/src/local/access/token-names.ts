/** Names of the tokens that the components need; operators are prefixed so that they cannot collide. */
export function tokenNames(operators: readonly string[]): readonly string[] {
  return ["admin", "node", "proxy", "controllers", "collector", ...operators.map(operatorTokenName)];
}

/** The name of an operator's token. */
export const operatorTokenName = (operator: string): string => `operator:${operator}`;
