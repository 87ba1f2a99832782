export function rerankOpen() { return {}; }
