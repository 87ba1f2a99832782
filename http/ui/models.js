export function modelsOpen() { return {}; }
